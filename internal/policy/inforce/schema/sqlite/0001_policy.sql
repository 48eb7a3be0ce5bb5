-- +goose Up
CREATE TABLE policy_snapshot (
    digest   TEXT PRIMARY KEY,
    body     TEXT NOT NULL,
    saved_at BIGINT NOT NULL
);
CREATE TABLE policy_bundle (
    digest   TEXT PRIMARY KEY,
    files    TEXT NOT NULL,
    saved_at BIGINT NOT NULL
);
CREATE TABLE policy_activation (
    seq          BIGINT PRIMARY KEY,
    bundle       TEXT NOT NULL,
    snapshot     TEXT NOT NULL,
    activated_by TEXT NOT NULL,
    activated_at BIGINT NOT NULL
);
