-- +goose Up
CREATE TABLE sessions (
  id         TEXT PRIMARY KEY,
  principal  TEXT NOT NULL,
  workspace  TEXT NOT NULL,
  door       TEXT NOT NULL,
  name       TEXT NOT NULL,
  labels     TEXT NOT NULL,
  opened_at  BIGINT NOT NULL,
  used_at    BIGINT NOT NULL,
  closed_at  BIGINT NOT NULL DEFAULT 0,
  calls      BIGINT NOT NULL DEFAULT 0
);
-- At most one open session per principal, workspace, door and name.
CREATE UNIQUE INDEX sessions_open ON sessions (principal, workspace, door, name) WHERE closed_at = 0;

CREATE TABLE calls (
  id          TEXT PRIMARY KEY,
  session     TEXT NOT NULL,
  client_key  TEXT,
  principal   TEXT NOT NULL,
  tool        TEXT NOT NULL,
  state       TEXT NOT NULL,
  approval    TEXT NOT NULL,
  input       TEXT NOT NULL,
  proposed_at BIGINT NOT NULL,
  finished_at BIGINT NOT NULL DEFAULT 0,
  doc         BLOB NOT NULL,
  outcome     BLOB
);
CREATE UNIQUE INDEX calls_key ON calls (session, client_key) WHERE client_key IS NOT NULL;
CREATE INDEX calls_open ON calls (state) WHERE state IN ('proposed','judged','pending','granted','running');
CREATE INDEX calls_approval ON calls (approval) WHERE state = 'pending';
CREATE INDEX calls_session ON calls (session, id);
