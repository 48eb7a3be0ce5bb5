-- +goose Up
CREATE TABLE mcp_upstreams (
    name       TEXT   NOT NULL PRIMARY KEY,
    definition TEXT   NOT NULL,
    digest     TEXT   NOT NULL,
    server     TEXT   NOT NULL,
    added_by   TEXT   NOT NULL,
    added_at   BIGINT NOT NULL
);
CREATE TABLE mcp_tools (
    upstream TEXT NOT NULL,
    name     TEXT NOT NULL,
    tool     TEXT NOT NULL,
    PRIMARY KEY (upstream, name)
);
