package palyra

import "palyra/internal/canon"

// PosturePredicateType is the predicate type of a signed posture. Statement and payload types are those of an attestation.
const PosturePredicateType = "https://palyra.dev/attestation/posture/v1"

const postureDomain = "posture/v1"

// Posture is what the sandbox tiers of a host really hold: a program inside each tier tried to get out, and what
// happened was looked at from inside and from outside.
type Posture struct {
	StateID string            `json:"state_id"` // the daemon's
	At      string            `json:"at"`       // when the tries were over
	Facts   map[string]string `json:"facts"`    // what the result rests on; when one changes it holds no more
	Tiers   []TierPosture     `json:"tiers"`
}

// TierPosture is what one tier holds.
type TierPosture struct {
	Tier       Tier            `json:"tier"`
	Available  bool            `json:"available"`
	Reason     Reason          `json:"reason_code"` // why it is not
	Text       string          `json:"reason"`
	Remedy     string          `json:"remedy"`
	Mode       NetworkMode     `json:"mode"`
	Mechanisms []string        `json:"mechanisms"`
	Limits     map[string]Hold `json:"limits"` // by the limit's name
	Probes     []Probe         `json:"probes"`
	Notes      []string        `json:"notes"` // what would make it hold more
}

// Probe is one thing that was tried. Held means that it was tried and came to nothing; a probe that could not be run
// is not held.
type Probe struct {
	Name   string `json:"name"`
	Held   bool   `json:"held"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy"`
}

// SignedPosture is a posture as it is kept. Current says that its facts are still those of the host.
type SignedPosture struct {
	Digest   Digest   `json:"digest"` // of the canonical posture
	Current  bool     `json:"current"`
	Envelope Envelope `json:"envelope"`
	Posture  Posture  `json:"posture"`
}

// Digest names the posture: attestations carry it.
func (p Posture) Digest() (Digest, error) {
	d, err := canon.Digest(postureDomain, p)
	return Digest(d), err
}

// Held reports whether everything that was tried came to nothing.
func (p Posture) Held() bool {
	for _, t := range p.Tiers {
		if !t.Held() {
			return false
		}
	}
	return len(p.Tiers) > 0
}

// Held reports whether the tier can be used and every probe of it held.
func (t TierPosture) Held() bool {
	return t.Available && len(t.Probes) > 0 && len(t.Failed()) == 0
}

// Failed names the probes that did not hold.
func (t TierPosture) Failed() []string {
	var names []string
	for _, p := range t.Probes {
		if !p.Held {
			names = append(names, p.Name)
		}
	}
	return names
}
