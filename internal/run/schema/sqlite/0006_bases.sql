-- +goose Up
-- Documents of calls that those of later calls are packed against. Rows are never changed.
CREATE TABLE call_bases (
  id   BIGINT NOT NULL PRIMARY KEY,
  text BLOB NOT NULL
);
