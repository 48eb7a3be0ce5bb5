package tiers

import (
	"context"

	"palyra"
	"palyra/internal/profile"
)

// maxProblems is how many flaws of profiles a status names.
const maxProblems = 8

// Problems says what keeps programs from being run here, for those who look before they find out by a refusal.
func (t *Tiers) Problems(ctx context.Context) []string {
	tier := t.Settings.Process.Tier
	if tier == "off" {
		return nil
	}
	var out []string
	for _, b := range t.backends {
		if b.Tier() == palyra.TierB && tier != "b" {
			continue // nobody runs there who does not ask for it
		}
		if _, err := b.Probe(ctx, palyra.Limits{}); err != nil {
			why := palyra.AsError(err)
			text := "tier " + string(b.Tier()) + " cannot be used: " + why.Text
			if why.Remedy != "" {
				text += "; remedy: " + why.Remedy
			}
			out = append(out, text)
		}
	}
	for i, f := range profile.Check(profileDir(t.Settings)) {
		if i == maxProblems {
			return append(out, "more is wrong with the profiles; remedy: see 'palyra config check'")
		}
		out = append(out, "a profile is broken, and nothing runs in tier C: "+f.Where()+": "+f.Text)
	}
	return out
}
