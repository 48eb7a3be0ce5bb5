package palyra

// SkillChanged is what became of an installed skill. All that is known of it from then on stands in the line.
type SkillChanged struct {
	Change    string    `json:"change"` // installed, updated, enabled, quarantined, shrunk, revoked, removed, forgotten
	Skill     string    `json:"skill_id"`
	Version   string    `json:"version"`
	Publisher string    `json:"publisher"`
	KeyID     string    `json:"key_id"`
	Package   Digest    `json:"package_digest"`
	State     string    `json:"state"`
	Granted   []string  `json:"granted"` // KIND:VALUE
	Why       string    `json:"why,omitempty"`
	By        Principal `json:"by"`
	Signature Signature `json:"signature"`
}

// PublisherChanged says that skills which a key signed may be installed, or from here on may not be used.
type PublisherChanged struct {
	Name      string    `json:"name"`
	KeyID     string    `json:"key_id"`
	PublicKey string    `json:"public_key"`
	Trusted   bool      `json:"trusted"`
	By        Principal `json:"by"`
	Signature Signature `json:"signature"`
}

// Kind implements Event.
func (SkillChanged) Kind() string     { return "skill.changed" }
func (PublisherChanged) Kind() string { return "publisher.changed" }
