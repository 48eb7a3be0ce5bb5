-- +goose Up
-- One version of one secret. sealed is the value under a data key of its own, wrapped that key under the vault key.
CREATE TABLE vault_secrets (
    scope      TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    version    BIGINT NOT NULL,
    data_key   TEXT   NOT NULL,
    vault_key  TEXT   NOT NULL,
    wrapped    BLOB   NOT NULL,
    sealed     BLOB   NOT NULL,
    unmasked   BIGINT NOT NULL,
    created_by TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (scope, name, version)
);
-- What the vault holds, authenticated under the vault key; counter grows with every change and is journaled too.
CREATE TABLE vault_manifest (
    one       BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
    counter   BIGINT NOT NULL,
    vault_key TEXT   NOT NULL,
    keeper    TEXT   NOT NULL,
    mac       BLOB   NOT NULL
);
-- Vault keys that a keeper may hold. All but the manifest's are to be forgotten.
CREATE TABLE vault_keys (
    id     TEXT NOT NULL PRIMARY KEY,
    keeper TEXT NOT NULL
);
-- How secrets may be used: a record each, which the manifest lists as well.
CREATE TABLE vault_bindings (
    name   TEXT NOT NULL PRIMARY KEY,
    record BLOB NOT NULL
);
