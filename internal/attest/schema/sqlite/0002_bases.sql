-- +goose Up
-- Envelopes that later ones are packed against. Rows are never changed.
CREATE TABLE attestation_bases (
    id   BIGINT NOT NULL PRIMARY KEY,
    text BLOB   NOT NULL
);
