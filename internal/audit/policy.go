package audit

import (
	"encoding/base64"
	"encoding/json"

	"palyra"
	"palyra/internal/canon"
	"palyra/internal/store"
)

// holdPolicy checks which bundle judged when, that the texts of the bundles and configurations that the
// journal names are there, and that each has its digest.
func (a *Audit) holdPolicy(tx *store.Tx) (*palyra.Finding, error) {
	bundles, f, err := digests(tx, "policy_bundle", "files", sumBundle)
	if f != nil || err != nil {
		return f, err
	}
	snapshots, f, err := digests(tx, "policy_snapshot", "body", sumSnapshot)
	if f != nil || err != nil {
		return f, err
	}
	var rows []palyra.PolicyActivated
	err = tx.Each(`SELECT bundle, snapshot, activated_by FROM policy_activation ORDER BY seq`, nil, func(scan func(...any) error) error {
		var p palyra.PolicyActivated
		err := scan(&p.Bundle, &p.Snapshot, &p.By)
		rows = append(rows, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, t := range a.turns {
		if i >= len(rows) || rows[i].Bundle != t.Bundle || rows[i].Snapshot != t.Snapshot || rows[i].By != t.By {
			return finding(t.seq, "policy_activation is not what the journal says from its number %d on", i+1), nil
		}
		if !bundles[t.Bundle] || !snapshots[t.Snapshot] {
			return finding(t.seq, "the policy or configuration that it names is not there: %s, %s", t.Bundle, t.Snapshot), nil
		}
	}
	if len(rows) > len(a.turns) {
		return finding(0, "policy_activation has %d rows, the journal %d lines", len(rows), len(a.turns)), nil
	}
	return nil, nil
}

// digests hashes the texts of a table again and returns which there are.
func digests(tx *store.Tx, table, column string, sum func(text []byte) (string, error)) (map[palyra.Digest]bool, *palyra.Finding, error) {
	all := map[palyra.Digest]bool{}
	var f *palyra.Finding
	err := tx.Each(`SELECT digest, `+column+` FROM `+table, nil, func(scan func(...any) error) error {
		var digest palyra.Digest
		var text string
		if err := scan(&digest, &text); err != nil {
			return err
		}
		if is, err := sum([]byte(text)); err != nil || is != str(digest) {
			f = finding(0, "%s has a text that does not have its digest: %.80q", table, str(digest))
			return errFound
		}
		all[digest] = true
		return nil
	})
	return all, f, scanError(f, err)
}

// sumBundle is the digest of a bundle: of the digests of its files, by name.
func sumBundle(text []byte) (string, error) {
	files := map[string]string{}
	if err := json.Unmarshal(text, &files); err != nil {
		return "", err
	}
	for name, content := range files {
		files[name] = str(palyra.SumBytes([]byte(content)))
	}
	return canon.Digest("policy-bundle/v1", files)
}

func sumSnapshot(text []byte) (string, error) {
	b, err := canon.FromJSON(text)
	return canon.Sum("snapshot/v1", b), err
}

// holdPostures checks that every posture of the journal is there, with its digest, and that the last one of a
// tier counts for it. Signatures are checked where a posture is used.
func (a *Audit) holdPostures(tx *store.Tx) (*palyra.Finding, error) {
	want := map[string]row{}
	for d, seq := range a.postures {
		want["text:"+str(d)] = row{seq: seq}
	}
	f, err := table{"postures", "digest", nil}.hold(tx, want)
	if f != nil || err != nil {
		return f, err
	}
	last := map[string]row{} // the last posture that speaks of a tier is the tier's
	err = tx.Each(`SELECT digest, envelope FROM postures`, nil, func(scan func(...any) error) error {
		var digest palyra.Digest
		var envelope []byte
		if err := scan(&digest, &envelope); err != nil {
			return err
		}
		tried, ok := tiersOf(envelope, digest)
		if !ok {
			f = finding(a.postures[digest], "the posture is not the one that was recorded")
			return errFound
		}
		for _, tier := range tried {
			if seq := a.postures[digest]; seq > last["text:"+string(tier)].seq {
				last["text:"+string(tier)] = row{seq: seq, values: []any{str(digest)}}
			}
		}
		return nil
	})
	if f != nil || err != nil {
		return f, scanError(f, err)
	}
	return table{"posture_tiers", "tier", []string{"digest"}}.hold(tx, last)
}

// tiersOf takes the tiers out of a posture that has the digest.
func tiersOf(envelope []byte, digest palyra.Digest) (tried []palyra.Tier, _ bool) {
	var e palyra.Envelope
	var statement struct {
		Predicate json.RawMessage `json:"predicate"`
	}
	var posture struct {
		Tiers []struct {
			Tier palyra.Tier `json:"tier"`
		} `json:"tiers"`
	}
	if json.Unmarshal(envelope, &e) != nil {
		return nil, false
	}
	payload, err := base64.StdEncoding.Strict().DecodeString(e.Payload)
	if err != nil || json.Unmarshal(payload, &statement) != nil || json.Unmarshal(statement.Predicate, &posture) != nil {
		return nil, false
	}
	b, err := canon.FromJSON(statement.Predicate)
	if err != nil || canon.Sum("posture/v1", b) != str(digest) {
		return nil, false
	}
	for _, t := range posture.Tiers {
		tried = append(tried, t.Tier)
	}
	return tried, true
}
