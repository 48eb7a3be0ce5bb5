package audit

import (
	"testing"

	"palyra"
)

// No skill is active by a row that somebody wrote, and no key is trusted by one.
func TestSkills(t *testing.T) {
	b := newBench(t)
	line := palyra.SkillChanged{
		Change: "installed", Skill: "demo", Version: "1.0.0", Publisher: "acme", KeyID: "pub-1", Package: "sha256:1", State: "quarantined",
		Granted: []string{}, Why: "nobody has enabled it yet", By: "user:alice",
	}
	enabled, gone := line, line
	enabled.Change, enabled.State, enabled.Granted, enabled.Why = "enabled", "active", []string{"hosts:a:1"}, ""
	gone.Change, gone.Skill = "forgotten", "old"
	first := palyra.PublisherChanged{Name: "acme", KeyID: "pub-1", PublicKey: "AAAA", Trusted: true, By: "user:alice"}
	revoked := first
	revoked.Trusted, revoked.By = false, "user:bob"
	other := first
	other.KeyID = "pub-2"
	b.say(first, other, line, enabled, gone, revoked)
	b.insert("skills", "id", "demo", "version", "1.0.0", "publisher", "acme", "key_id", "pub-1", "digest", "sha256:1", "state", "active",
		"granted", `["hosts:a:1"]`, "why", "", "installed_by", "user:alice", "installed_at", 1, "bytes", 1)
	b.insert("skill_publishers", "key_id", "pub-1", "name", "acme", "public_key", "AAAA", "added_by", "user:alice", "added_at", 1,
		"revoked_at", 2)
	b.insert("skill_publishers", "key_id", "pub-2", "name", "acme", "public_key", "AAAA", "added_by", "user:alice", "added_at", 1,
		"revoked_at", 0)
	if why := b.found(); why != "" {
		t.Fatal(why)
	}
	b.everyColumn("skills", "id", "version", "publisher", "key_id", "digest", "state", "granted", "why")
	b.everyColumn("skill_publishers", "key_id", "name", "public_key", "added_by")
	b.noticed("skill_publishers", "a key that was revoked is trusted", `UPDATE skill_publishers SET revoked_at = 0`)
	b.noticed("skills", "a skill from nowhere",
		`INSERT INTO skills SELECT 'other', version, publisher, key_id, digest, state, granted, why, installed_by, 1, 1 FROM skills`)
}
