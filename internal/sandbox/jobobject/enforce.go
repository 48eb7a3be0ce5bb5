package jobobject

import (
	"palyra"
)

// enforcement is what holds for every run. The network is not confined.
func enforcement() palyra.Enforcement {
	return palyra.Enforcement{
		Mode: palyra.NetworkOpen,
		Mechanisms: []string{
			"clean_env", "handle_list", "integrity_low", "job_object", "mitigation_policies", "private_home", "private_tmp", "privileges_dropped",
			"restricted_token", "ui_restrictions",
		},
		Limits: map[string]palyra.Hold{
			"wall": palyra.HoldTimer, "cpu": palyra.HoldJobTime, "memory": palyra.HoldJob, "processes": palyra.HoldJob,
			"open_files": palyra.HoldNone, "file_size": palyra.HoldNone,
			"output": palyra.HoldCap, "emitted": palyra.HoldCounted, "disk": palyra.HoldNone,
		},
	}
}
