-- +goose Up
CREATE TABLE access_users (
    principal  TEXT   NOT NULL PRIMARY KEY, -- kept for good: a name is never given twice
    role       TEXT   NOT NULL,
    workspaces TEXT   NOT NULL, -- JSON list; []: everywhere
    added_at   BIGINT NOT NULL,
    added_by   TEXT   NOT NULL,
    removed_at BIGINT NOT NULL  -- 0: not removed
);

CREATE TABLE access_tokens (
    id           TEXT   NOT NULL PRIMARY KEY, -- made of token_sha256
    name         TEXT   NOT NULL,
    principal    TEXT   NOT NULL,
    scopes       TEXT   NOT NULL,
    workspaces   TEXT   NOT NULL,
    token_sha256 TEXT   NOT NULL UNIQUE,
    added_at     BIGINT NOT NULL,
    added_by     TEXT   NOT NULL,
    expires_at   BIGINT NOT NULL,
    used_at      BIGINT NOT NULL,
    revoked_at   BIGINT NOT NULL,
    revoked_by   TEXT   NOT NULL
);
CREATE INDEX access_tokens_principal ON access_tokens (principal);

CREATE TABLE access_devices (
    id          TEXT   NOT NULL PRIMARY KEY, -- made of the key
    name        TEXT   NOT NULL UNIQUE,
    principal   TEXT   NOT NULL,
    role        TEXT   NOT NULL,
    key_id      TEXT   NOT NULL UNIQUE,
    public_key  TEXT   NOT NULL,
    certificate TEXT   NOT NULL,
    serial      TEXT   NOT NULL,
    expires_at  BIGINT NOT NULL,
    paired_at   BIGINT NOT NULL,
    paired_by   TEXT   NOT NULL,
    call_id     TEXT   NOT NULL,
    address     TEXT   NOT NULL,
    seen_at     BIGINT NOT NULL,
    revoked_at  BIGINT NOT NULL,
    revoked_by  TEXT   NOT NULL
);
CREATE INDEX access_devices_principal ON access_devices (principal);

-- +goose Down
DROP TABLE access_devices;
DROP TABLE access_tokens;
DROP TABLE access_users;
