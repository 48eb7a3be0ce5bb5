-- +goose Up
CREATE TABLE access_operators (
    key_id     TEXT   NOT NULL PRIMARY KEY,
    seq        BIGINT NOT NULL UNIQUE, -- in the order of adding, whatever the clock said
    principal  TEXT   NOT NULL,
    role       TEXT   NOT NULL,
    public_key TEXT   NOT NULL,
    separation TEXT   NOT NULL,
    uid        BIGINT NOT NULL, -- of the first owner; -1 for those added later
    added_at   BIGINT NOT NULL,
    removed_at BIGINT NOT NULL  -- 0: not removed
);

CREATE TABLE access_agents (
    principal    TEXT   NOT NULL PRIMARY KEY,
    owner        TEXT   NOT NULL,
    token_sha256 TEXT   NOT NULL UNIQUE,
    added_at     BIGINT NOT NULL,
    removed_at   BIGINT NOT NULL
);

-- Signatures that were used, until their time is long past.
CREATE TABLE access_intents (
    key_id TEXT   NOT NULL,
    nonce  TEXT   NOT NULL,
    time   BIGINT NOT NULL,
    PRIMARY KEY (key_id, nonce)
);
CREATE INDEX access_intents_time ON access_intents (time);

-- What was forgotten: no signature older than this is ever accepted again, so
-- that setting the clock back cannot revive one.
CREATE TABLE access_floor (
    id   BIGINT NOT NULL PRIMARY KEY,
    time BIGINT NOT NULL
);
INSERT INTO access_floor (id, time) VALUES (1, 0);

-- +goose Down
DROP TABLE access_floor;
DROP TABLE access_intents;
DROP TABLE access_agents;
DROP TABLE access_operators;
