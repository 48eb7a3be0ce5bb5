-- +goose Up
CREATE TABLE state (
  one BIGINT PRIMARY KEY CHECK (one = 1),
  id  TEXT NOT NULL
);
