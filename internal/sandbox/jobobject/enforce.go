package jobobject

import (
	"palyra"
)

// enforcement is what holds for every run. The network is not confined.
func enforcement() palyra.Enforcement {
	return palyra.Enforcement{
		Mode: "none",
		Mechanisms: []string{
			"clean_env", "handle_list", "integrity_low", "job_object", "mitigation_policies", "private_home", "private_tmp", "privileges_dropped",
			"restricted_token", "ui_restrictions",
		},
		Limits: map[string]palyra.Hold{
			"wall": "timer", "cpu": "job_object_user_time", "memory": "job_object", "processes": "job_object", "open_files": "none", "file_size": "none",
			"output": "cap", "emitted": "counted", "disk": "none",
		},
	}
}
