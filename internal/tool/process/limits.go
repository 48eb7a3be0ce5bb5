package process

import (
	"fmt"

	"palyra"
)

// tighter holds the limits that a call may name.
type tighter struct {
	CPUMS        *int64 `json:"cpu_ms"`
	MemoryBytes  *int64 `json:"memory_bytes"`
	Processes    *int64 `json:"processes"`
	OpenFiles    *int64 `json:"open_files"`
	FileBytes    *int64 `json:"file_bytes"`
	EmittedBytes *int64 `json:"emitted_bytes"`
	DiskBytes    *int64 `json:"disk_bytes"`
}

// bounds lists the limits of this driver with their fields.
func bounds(l *palyra.Limits) []struct {
	name  string
	value *int64
} {
	return []struct {
		name  string
		value *int64
	}{
		{"cpu_ms", &l.CPUMS},
		{"memory_bytes", &l.MemoryBytes},
		{"processes", &l.Processes},
		{"open_files", &l.OpenFiles},
		{"file_bytes", &l.FileBytes},
		{"emitted_bytes", &l.EmittedBytes},
		{"disk_bytes", &l.DiskBytes},
	}
}

// withDefaults fills in the limits that the configuration leaves open.
func withDefaults(l palyra.Limits) (palyra.Limits, error) {
	defaults := most
	usual := bounds(&defaults)
	for i, b := range bounds(&l) {
		if *b.value < 0 {
			return l, fmt.Errorf("process: new: the limit %s is negative", b.name)
		}
		if *b.value == 0 {
			*b.value = *usual[i].value
		}
	}
	return l, nil
}

// lower returns the limits of a call: the configured ones and those that came with the plan, lowered as the call
// asks. A call that asks for more, or for zero, is refused: it would not get what it expects.
func (a arguments) lower(most, l palyra.Limits) (palyra.Limits, error) {
	wall, output := l.WallMS, l.OutputBytes
	l = most
	l.WallMS, l.OutputBytes = wall, output
	asked := []*int64{
		a.Limits.CPUMS, a.Limits.MemoryBytes, a.Limits.Processes, a.Limits.OpenFiles, a.Limits.FileBytes, a.Limits.EmittedBytes,
		a.Limits.DiskBytes,
	}
	for i, b := range bounds(&l) {
		if err := lowered("limits."+b.name, "process."+b.name, b.value, asked[i]); err != nil {
			return palyra.Limits{}, err
		}
	}
	if err := lowered("timeout_ms", "tool_call.execution_timeout_ms", &l.WallMS, a.TimeoutMS); err != nil {
		return palyra.Limits{}, err
	}
	return l, nil
}

// flags are the flags of 'palyra exec' for the limits that have one.
var flags = map[string]string{
	"limits.cpu_ms": "--cpu", "limits.memory_bytes": "--memory", "limits.processes": "--processes",
	"limits.disk_bytes": "--disk", "timeout_ms": "--timeout",
}

// lowered sets a limit to the value that the call asks for. setting is the name of the limit in the configuration.
func lowered(name, setting string, limit, asked *int64) error {
	if flag := flags[name]; flag != "" {
		name += " (" + flag + ")"
	}
	switch {
	case asked == nil:
		return nil
	case *asked <= 0:
		return malformed("%s must be more than nothing", name).WithRemedy("give from 1 to %d, or leave it out", *limit)
	case *asked > *limit:
		return malformed("%s of %d is over the most that a run may use, %d", name, *asked, *limit).
			WithRemedy("give at most %d, or leave it out; an operator can raise %s", *limit, setting)
	}
	*limit = *asked
	return nil
}
