-- +goose Up
CREATE TABLE workspaces (
    path     TEXT   NOT NULL PRIMARY KEY,
    name     TEXT   NOT NULL,
    owner    BIGINT NOT NULL,
    added_by TEXT   NOT NULL,
    added_at BIGINT NOT NULL
);
