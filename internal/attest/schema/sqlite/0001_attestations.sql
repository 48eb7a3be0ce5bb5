-- +goose Up
-- Envelopes as signed, byte for byte. Rows are never changed.
CREATE TABLE attestations (
    attestation_id TEXT   NOT NULL PRIMARY KEY,
    call_id        TEXT   NOT NULL UNIQUE,
    digest         TEXT   NOT NULL UNIQUE,
    envelope       BLOB   NOT NULL
);
