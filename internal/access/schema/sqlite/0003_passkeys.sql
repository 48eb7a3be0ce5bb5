-- +goose Up
ALTER TABLE access_devices ADD COLUMN passkey TEXT NOT NULL DEFAULT ''; -- JSON; empty: its key is no passkey
ALTER TABLE access_devices ADD COLUMN sign_count BIGINT NOT NULL DEFAULT 0; -- the last that its authenticator said

-- +goose Down
ALTER TABLE access_devices DROP COLUMN sign_count;
ALTER TABLE access_devices DROP COLUMN passkey;
