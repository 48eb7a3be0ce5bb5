-- +goose Up
-- Public halves only. A row is never deleted; retired = 0 marks the one key in use.
CREATE TABLE signing_keys (
    seq        BIGINT NOT NULL UNIQUE,
    key_id     TEXT   NOT NULL PRIMARY KEY,
    key_use    TEXT   NOT NULL,
    public_key TEXT   NOT NULL,
    verifier   TEXT   NOT NULL,
    signed_by  TEXT   NOT NULL,
    sig        TEXT   NOT NULL,
    created    BIGINT NOT NULL,
    retired    BIGINT NOT NULL
);
CREATE UNIQUE INDEX signing_keys_current ON signing_keys (key_use) WHERE retired = 0;
