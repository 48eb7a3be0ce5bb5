-- +goose Up
-- Who a session and a call can be reached by.
ALTER TABLE sessions ADD COLUMN room   TEXT NOT NULL DEFAULT '';  -- the running call at whose own door it was opened
ALTER TABLE sessions ADD COLUMN bounds TEXT NOT NULL DEFAULT '';  -- the workspaces that its credentials are bound to, in order; empty: none
DROP INDEX sessions_open;
CREATE UNIQUE INDEX sessions_open ON sessions (principal, workspace, door, name, room, bounds) WHERE closed_at = 0;
CREATE INDEX sessions_room ON sessions (room) WHERE closed_at = 0 AND room <> '';

ALTER TABLE calls ADD COLUMN origin TEXT NOT NULL DEFAULT '';     -- who proposed the outermost call around it; empty: its principal
CREATE INDEX calls_parent ON calls (parent) WHERE parent <> '';
