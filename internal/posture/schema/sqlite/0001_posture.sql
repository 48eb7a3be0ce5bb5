-- +goose Up
CREATE TABLE postures (
    digest   TEXT   NOT NULL PRIMARY KEY,
    at       BIGINT NOT NULL,
    envelope BLOB   NOT NULL
);

CREATE TABLE posture_tiers (
    tier   TEXT NOT NULL PRIMARY KEY,
    digest TEXT NOT NULL REFERENCES postures (digest)
);
