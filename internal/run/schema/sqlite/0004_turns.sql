-- +goose Up
ALTER TABLE runs ADD COLUMN input_tokens  BIGINT NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN output_tokens BIGINT NOT NULL DEFAULT 0;

-- Turns that cannot be had twice, as their driver keeps them.
CREATE TABLE run_turns (
  run  TEXT NOT NULL,
  turn BIGINT NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (run, turn)
);
