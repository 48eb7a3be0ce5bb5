-- +goose Up

-- A question as it is looked up, filtered and settled. What is large and never
-- changes (plan, prompt) stands in approval_documents, so that settling a
-- question rewrites a short row whatever the plan's size.
CREATE TABLE approvals (
    id             TEXT   NOT NULL PRIMARY KEY,
    seq            BIGINT NOT NULL, -- 1, 2, 3, … in the order of insertion, without gaps
    session_id     TEXT   NOT NULL,
    run_id         TEXT   NOT NULL,
    call_id        TEXT   NOT NULL,
    principal      TEXT   NOT NULL,
    owner          TEXT   NOT NULL,
    peer_uid       BIGINT NOT NULL,
    door           TEXT   NOT NULL,
    requested_at   BIGINT NOT NULL,
    expires_at     BIGINT NOT NULL, -- wall clock
    boot_id        TEXT   NOT NULL,
    expires_boot   BIGINT NOT NULL, -- nanoseconds since that boot
    subject_type   TEXT   NOT NULL,
    subject_id     TEXT   NOT NULL,
    plan_digest    TEXT   NOT NULL,
    need           TEXT   NOT NULL,
    bundle         TEXT   NOT NULL,
    snapshot       TEXT   NOT NULL,
    policies       TEXT   NOT NULL,
    waiting        BIGINT NOT NULL,
    decision       TEXT   NOT NULL, -- empty: pending
    scope          TEXT   NOT NULL,
    lease_id       TEXT   NOT NULL,
    reason         TEXT   NOT NULL,
    decided_by     TEXT   NOT NULL,
    decided_method TEXT   NOT NULL,
    decided_at     BIGINT NOT NULL,
    separation     TEXT   NOT NULL
);

CREATE UNIQUE INDEX approvals_seq ON approvals (seq);
-- One open question per plan and session: identical ones are joined.
CREATE UNIQUE INDEX approvals_open_plan ON approvals (session_id, plan_digest, principal) WHERE decision = '';
CREATE INDEX approvals_open_deadline ON approvals (expires_at) WHERE decision = '';
CREATE INDEX approvals_open_boot ON approvals (boot_id, expires_boot) WHERE decision = '';
CREATE INDEX approvals_open_time ON approvals (requested_at, id) WHERE decision = '';
CREATE INDEX approvals_open_principal ON approvals (principal, requested_at, id) WHERE decision = '';
CREATE INDEX approvals_open_type ON approvals (subject_type, requested_at, id) WHERE decision = '';
CREATE INDEX approvals_settled_time ON approvals (requested_at, id) WHERE decision <> '';
CREATE INDEX approvals_settled_answer ON approvals (decision, requested_at, id) WHERE decision <> '';
CREATE INDEX approvals_time ON approvals (requested_at, id);
CREATE INDEX approvals_principal ON approvals (principal, requested_at, id);
CREATE INDEX approvals_session ON approvals (session_id, requested_at, id);
CREATE INDEX approvals_type ON approvals (subject_type, requested_at, id);
CREATE INDEX approvals_subject ON approvals (subject_id, requested_at, id);

CREATE TABLE approval_documents (
    approval_id TEXT NOT NULL PRIMARY KEY,
    plan        TEXT NOT NULL,
    prompt      TEXT NOT NULL
);

-- Answers. Rows are written once and never changed.
CREATE TABLE approval_votes (
    id          TEXT   NOT NULL PRIMARY KEY,
    approval_id TEXT   NOT NULL,
    voter       TEXT   NOT NULL,
    voted_at    BIGINT NOT NULL,
    body        TEXT   NOT NULL
);

CREATE UNIQUE INDEX approval_votes_once ON approval_votes (approval_id, voter);

CREATE TABLE approval_leases (
    id           TEXT   NOT NULL PRIMARY KEY,
    approval_id  TEXT   NOT NULL,
    scope        TEXT   NOT NULL,
    principal    TEXT   NOT NULL,
    session_id   TEXT   NOT NULL,
    tool         TEXT   NOT NULL,
    plan_digest  TEXT   NOT NULL, -- empty: widened terms
    terms        TEXT   NOT NULL,
    risk         TEXT   NOT NULL, -- what the approver was shown
    granted_by   TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL, -- 0: no deadline of its own
    boot_id      TEXT   NOT NULL,
    expires_boot BIGINT NOT NULL,
    uses_left    BIGINT NOT NULL, -- -1: no count
    ended        TEXT   NOT NULL, -- empty: live
    ended_at     BIGINT NOT NULL,
    ended_by     TEXT   NOT NULL,
    signature    TEXT   NOT NULL  -- of the revocation
);

CREATE INDEX approval_leases_cover ON approval_leases (session_id, principal, tool, plan_digest) WHERE ended = '';
CREATE INDEX approval_leases_deadline ON approval_leases (expires_at) WHERE ended = '' AND expires_at > 0;
CREATE INDEX approval_leases_boot ON approval_leases (boot_id, expires_boot) WHERE ended = '' AND expires_at > 0;
CREATE INDEX approval_leases_live ON approval_leases (created_at, id) WHERE ended = '';
CREATE INDEX approval_leases_ended ON approval_leases (created_at, id) WHERE ended <> '';
CREATE INDEX approval_leases_time ON approval_leases (created_at, id);
CREATE INDEX approval_leases_session ON approval_leases (session_id, created_at, id);
CREATE INDEX approval_leases_principal ON approval_leases (principal, created_at, id);

-- Plans that were denied and may not be asked again yet.
CREATE TABLE approval_denials (
    principal   TEXT   NOT NULL,
    plan_digest TEXT   NOT NULL,
    until_at    BIGINT NOT NULL,
    boot_id     TEXT   NOT NULL,
    until_boot  BIGINT NOT NULL,
    PRIMARY KEY (principal, plan_digest)
);

CREATE INDEX approval_denials_boot ON approval_denials (boot_id, until_boot);

-- The latest time ever seen: a clock that is set back across a reboot does not
-- lengthen a deadline.
CREATE TABLE approval_clock (
    id         BIGINT NOT NULL PRIMARY KEY,
    wall       BIGINT NOT NULL,
    boot_id    TEXT   NOT NULL,
    since_boot BIGINT NOT NULL
);

INSERT INTO approval_clock (id, wall, boot_id, since_boot) VALUES (1, 0, '', 0);

-- +goose Down
DROP TABLE approval_clock;
DROP TABLE approval_denials;
DROP TABLE approval_leases;
DROP TABLE approval_votes;
DROP TABLE approval_documents;
DROP TABLE approvals;
