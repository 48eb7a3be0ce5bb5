-- +goose Up

-- What was left out of the documents of a question that nobody allowed: empty, or
-- sizes and digests as JSON.
ALTER TABLE approval_documents ADD COLUMN left_out TEXT NOT NULL DEFAULT '';

-- What the questions of a principal and day keep.
CREATE TABLE approval_bytes (
    principal TEXT   NOT NULL,
    day       BIGINT NOT NULL, -- days since 1970, UTC
    bytes     BIGINT NOT NULL,
    PRIMARY KEY (principal, day)
);
