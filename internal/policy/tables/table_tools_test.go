//go:build linux

package tables

import (
	"context"
	"slices"
	"testing"

	"palyra"
	"palyra/internal/tool"
	"palyra/internal/tool/artifact"
	"palyra/internal/tool/background"
	"palyra/internal/tool/basic"
	"palyra/internal/tool/device"
	"palyra/internal/tool/fetch"
	"palyra/internal/tool/files"
	"palyra/internal/tool/process"
	"palyra/internal/tool/review"
	"palyra/internal/tool/undo"
)

// What tests take for granted of Palyra's own tools is what they are.
func TestTableToolsAreTheRealOnes(t *testing.T) {
	real := map[string]palyra.Tool{}
	for _, one := range slices.Concat([]tool.Tool{}, basic.All(), artifact.All(nil), files.All(files.Config{}), fetch.All(fetch.Config{}),
		device.All(device.Config{}),
		undo.All(nil), review.All(nil), background.All(nil)) {
		real[string(one.Spec().Name)] = one.Spec()
	}
	run, err := process.New(process.Config{Tiers: noTiers{}, Tier: palyra.TierC})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range run.Specs() {
		real[string(one.Name)] = one
	}
	for name, is := range real {
		got, known := tableTools[palyra.ToolName(name)]
		if !known || got.ReadOnly != is.ReadOnly || got.Workspace != is.Workspace || got.Tier != is.Tier || got.Source != is.Source ||
			!slices.Equal(sorted(got), sorted(is)) {
			t.Errorf("%s: %+v, tests take it for %+v", name, is, got)
		}
	}
	for name := range tableTools {
		if _, ok := real[string(name)]; !ok {
			t.Errorf("there is no tool %s", name)
		}
	}
}

func sorted(t palyra.Tool) []palyra.Capability {
	return slices.Sorted(slices.Values(t.Capabilities))
}

type noTiers struct{}

func (noTiers) Promise(context.Context, palyra.Tier, palyra.Limits) (palyra.Enforcement, error) {
	return palyra.Enforcement{}, nil
}
