-- +goose Up
CREATE TABLE skill_keys (
    owner TEXT NOT NULL,
    name  BLOB NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (owner, name)
);

CREATE TABLE skill_sizes (
    owner TEXT   NOT NULL PRIMARY KEY,
    names BIGINT NOT NULL,
    bytes BIGINT NOT NULL
);
