package rpctest

import (
	"context"

	"palyra"
)

type sandboxPart struct{ *Parts }

// Posture is the one posture.
var Posture = palyra.SignedPosture{
	Digest: "sha256:00", Current: true, Envelope: Envelope,
	Posture: palyra.Posture{
		StateID: StateID, At: palyra.Time(At), Facts: map[string]string{"kernel": "6.1"},
		Tiers: []palyra.TierPosture{
			{
				Tier: palyra.TierB, Available: true, Limits: map[string]palyra.Hold{"memory": "cgroup"},
				Probes: []palyra.Probe{{Name: "secret", Held: true, Detail: "<EACCES>"}},
			},
			{Tier: palyra.TierC, Reason: palyra.ReasonTierUnavailable, Text: "there is no bwrap", Remedy: "apt install bubblewrap"},
		},
	},
}

func (s sandboxPart) Check(ctx context.Context, tiers []palyra.Tier, _ palyra.Principal) (palyra.SignedPosture, error) {
	s.note(ctx, "doctor")
	p := Posture
	if len(tiers) == 1 && tiers[0] == palyra.TierB {
		p.Posture.Tiers = p.Posture.Tiers[:1]
	}
	return p, nil
}

func (s sandboxPart) Last(ctx context.Context) ([]palyra.SignedPosture, error) {
	s.note(ctx, "posture")
	return []palyra.SignedPosture{Posture}, nil
}

func (s sandboxPart) Get(ctx context.Context, digest palyra.Digest) (palyra.SignedPosture, error) {
	s.note(ctx, "posture "+string(digest))
	return Posture, nil
}
