-- +goose Up
CREATE TABLE push_subscriptions (
    device     TEXT   NOT NULL PRIMARY KEY,
    endpoint   TEXT   NOT NULL UNIQUE,
    public_key BLOB   NOT NULL,
    auth       BLOB   NOT NULL,
    since      BIGINT NOT NULL
);
