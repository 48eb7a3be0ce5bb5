-- +goose Up
CREATE TABLE artifacts (
    id      TEXT   NOT NULL PRIMARY KEY,
    session TEXT   NOT NULL,
    call_id TEXT   NOT NULL,
    size    BIGINT NOT NULL,
    digest  TEXT   NOT NULL,
    created BIGINT NOT NULL
);
CREATE INDEX artifacts_session ON artifacts (session);
CREATE INDEX artifacts_created ON artifacts (created);
