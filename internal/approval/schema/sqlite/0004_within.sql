-- +goose Up

-- The only workspaces that the credential of the call reaches, as JSON: an answer that holds in any session is for
-- credentials with the same bounds.
ALTER TABLE approvals ADD COLUMN within TEXT NOT NULL DEFAULT 'null';

-- +goose Down
ALTER TABLE approvals DROP COLUMN within;
