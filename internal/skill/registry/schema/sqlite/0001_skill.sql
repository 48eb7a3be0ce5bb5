-- +goose Up
CREATE TABLE skills (
    id           TEXT   NOT NULL PRIMARY KEY,
    version      TEXT   NOT NULL,
    publisher    TEXT   NOT NULL,
    key_id       TEXT   NOT NULL,
    digest       TEXT   NOT NULL,
    state        TEXT   NOT NULL,
    granted      TEXT   NOT NULL,
    why          TEXT   NOT NULL,
    installed_by TEXT   NOT NULL,
    installed_at BIGINT NOT NULL,
    bytes        BIGINT NOT NULL
);
CREATE TABLE skill_packages (
    digest TEXT NOT NULL PRIMARY KEY,
    data   BLOB NOT NULL
);
CREATE TABLE skill_publishers (
    key_id     TEXT   NOT NULL PRIMARY KEY,
    name       TEXT   NOT NULL,
    public_key TEXT   NOT NULL,
    added_by   TEXT   NOT NULL,
    added_at   BIGINT NOT NULL,
    revoked_at BIGINT NOT NULL
);
CREATE TABLE skill_uses (
    digest TEXT   NOT NULL,
    kind   TEXT   NOT NULL,
    value  TEXT   NOT NULL,
    count  BIGINT NOT NULL,
    PRIMARY KEY (digest, kind, value)
);
