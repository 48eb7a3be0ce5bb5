-- +goose Up
-- For whom something can be sealed without the vault's key, by what it is for; the identities that open it are secrets of
-- the daemon's own, in the scope "daemon". The manifest lists the recipients as well.
CREATE TABLE vault_recipients (
    name      TEXT NOT NULL PRIMARY KEY,
    recipient TEXT NOT NULL
);
