-- +goose Up
-- In whose share an open question is counted: that of a principal, or of a room.
ALTER TABLE approvals ADD COLUMN room TEXT NOT NULL DEFAULT ''; -- at whose own door the call was proposed
ALTER TABLE approvals ADD COLUMN payer TEXT NOT NULL DEFAULT '';
UPDATE approvals SET payer = principal WHERE decision = '';
CREATE INDEX approvals_open_payer ON approvals (payer, expires_at) WHERE decision = '';

-- +goose Down
DROP INDEX approvals_open_payer;
ALTER TABLE approvals DROP COLUMN payer;
ALTER TABLE approvals DROP COLUMN room;
