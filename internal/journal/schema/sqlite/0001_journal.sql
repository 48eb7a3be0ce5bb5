-- +goose Up

-- The line itself stands last: what is looked up without it is found without
-- walking a long one. seq is the row id, so an index on a column carries it.
CREATE TABLE journal_entries (
    seq     INTEGER PRIMARY KEY,
    time    BIGINT NOT NULL,
    kind    TEXT   NOT NULL,
    call_id TEXT,
    leaf    BLOB   NOT NULL,
    chain   BLOB   NOT NULL,
    entry   BLOB   NOT NULL
);
CREATE INDEX journal_entries_kind ON journal_entries (kind);
CREATE INDEX journal_entries_call ON journal_entries (call_id) WHERE call_id IS NOT NULL;

-- Our own mistakes stop here; someone with the file can drop the triggers, and
-- verification is what tells.
-- +goose StatementBegin
CREATE TRIGGER journal_entries_update BEFORE UPDATE ON journal_entries
BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER journal_entries_delete BEFORE DELETE ON journal_entries
BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
-- +goose StatementEnd

-- Full tiles only: 256 hashes of a level, 8 KiB.
CREATE TABLE journal_tiles (
    level  BIGINT NOT NULL,
    n      BIGINT NOT NULL,
    hashes BLOB   NOT NULL,
    PRIMARY KEY (level, n)
);

-- One row: the tree as it stands, signed.
CREATE TABLE journal_head (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    size  BIGINT NOT NULL,
    root  BLOB   NOT NULL,
    chain BLOB   NOT NULL,
    note  TEXT   NOT NULL
);

-- Heads that are kept.
CREATE TABLE journal_checkpoints (
    size INTEGER PRIMARY KEY,
    note TEXT NOT NULL
);
