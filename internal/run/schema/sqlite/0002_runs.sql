-- +goose Up
ALTER TABLE calls ADD COLUMN run TEXT NOT NULL DEFAULT '';
CREATE INDEX calls_run ON calls (run, id) WHERE run <> '';

CREATE TABLE runs (
  id         TEXT PRIMARY KEY,
  principal  TEXT NOT NULL,
  session    TEXT NOT NULL,
  client_key TEXT,
  state      TEXT NOT NULL,
  calls      BIGINT NOT NULL DEFAULT 0,
  output     BIGINT NOT NULL DEFAULT 0,
  last_seq   BIGINT NOT NULL DEFAULT 0,
  taped      BIGINT NOT NULL DEFAULT 0,   -- bytes of tool output on the tape
  started    BIGINT NOT NULL,             -- position of its first line in the journal
  turn       BIGINT NOT NULL DEFAULT 0,   -- the latest that asked for input
  cancel_by  TEXT NOT NULL DEFAULT '',    -- who asked for its end; a restart does not forget it
  ended_at   BIGINT NOT NULL DEFAULT 0,
  doc        BLOB NOT NULL,
  input      BLOB                         -- what drives it; gone when it has ended
);
CREATE UNIQUE INDEX runs_key ON runs (principal, client_key) WHERE client_key IS NOT NULL;
CREATE INDEX runs_open ON runs (principal) WHERE ended_at = 0;
CREATE INDEX runs_principal ON runs (principal, id);
CREATE INDEX runs_session ON runs (session, id);

CREATE TABLE tape (
  run  TEXT NOT NULL,
  seq  BIGINT NOT NULL,
  turn BIGINT NOT NULL DEFAULT 0,         -- of a piece of text
  body BLOB NOT NULL,
  PRIMARY KEY (run, seq)
);
CREATE INDEX tape_text ON tape (run, turn) WHERE turn > 0;

CREATE TABLE run_inputs (
  run  TEXT NOT NULL,
  n    BIGINT NOT NULL,
  turn BIGINT NOT NULL DEFAULT 0,         -- the first turn that heard it; 0: none has yet
  text TEXT NOT NULL,
  PRIMARY KEY (run, n)
);
