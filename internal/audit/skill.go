package audit

import (
	"encoding/json"

	"palyra"
	"palyra/internal/store"
)

// skillRecord is the last line about a skill.
type skillRecord struct {
	palyra.SkillChanged
	seq int64
}

// publisherRecord is the last line about a publisher's key.
type publisherRecord struct {
	palyra.PublisherChanged
	by  palyra.Principal // who trusted it first
	seq int64
}

// shelf is what the journal says of skills.
type shelf struct {
	skills     map[string]skillRecord
	publishers map[string]publisherRecord
}

func newShelf() shelf {
	return shelf{skills: map[string]skillRecord{}, publishers: map[string]publisherRecord{}}
}

// hear takes in a line; false: it is about something else.
func (s shelf) hear(seq int64, e palyra.Event) bool {
	switch e := e.(type) {
	case *palyra.SkillChanged:
		if s.skills[e.Skill] = (skillRecord{*e, seq}); e.Change == "forgotten" {
			delete(s.skills, e.Skill)
		}
	case *palyra.PublisherChanged:
		by := e.By
		if old, known := s.publishers[e.KeyID]; known {
			by = old.by
		}
		s.publishers[e.KeyID] = publisherRecord{*e, by, seq}
	default:
		return false
	}
	return true
}

// hold checks that no skill is active or was granted anything that no line says, and that no key is trusted by a row alone.
func (s shelf) hold(tx *store.Tx) (*palyra.Finding, error) {
	skills := map[string]row{}
	for id, e := range s.skills {
		granted, err := json.Marshal(append([]string{}, e.Granted...))
		if err != nil {
			return nil, err
		}
		skills["text:"+id] = row{seq: e.seq, values: []any{
			e.Version, e.Publisher, e.KeyID, str(e.Package), e.State, string(granted), e.Why,
		}}
	}
	columns := []string{"version", "publisher", "key_id", "digest", "state", "granted", "why"}
	if f, err := (table{"skills", "id", columns}).hold(tx, skills); f != nil || err != nil {
		return f, err
	}
	publishers := map[string]row{}
	for id, e := range s.publishers {
		publishers["text:"+id] = row{seq: e.seq, values: []any{e.Name, e.PublicKey, str(e.by), !e.Trusted}}
	}
	return table{"skill_publishers", "key_id", []string{"name", "public_key", "added_by", "revoked_at<>0"}}.hold(tx, publishers)
}
