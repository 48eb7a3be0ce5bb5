-- +goose Up
-- What the workspace is a work tree of, as JSON; empty: nothing outside of it.
ALTER TABLE workspaces ADD COLUMN repository TEXT NOT NULL DEFAULT '';
