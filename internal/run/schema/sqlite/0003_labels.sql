-- +goose Up
ALTER TABLE calls ADD COLUMN parent TEXT NOT NULL DEFAULT '';

-- What calls that are under way may be doing, until their end is on record.
CREATE TABLE call_labels (
  call    TEXT NOT NULL,
  session TEXT NOT NULL,
  labels  TEXT NOT NULL,
  PRIMARY KEY (call, session)
);
CREATE INDEX call_labels_session ON call_labels (session);
