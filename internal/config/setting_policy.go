package config

import (
	"errors"
	"os"
)

// policySettings are about the policies that judge calls.
var policySettings = []setting{
	{
		key: "policy.preset", text: "the policies that are in force where nobody applied others: default, ask, strict, ci or readonly",
		check: oneOf("default", "ask", "strict", "ci", "readonly"),
	},
	{
		key: "policy.dir", text: "a directory of policies that is put into force at the start and on SIGHUP when it changed; empty: none",
		check: absolute,
	},
}

// Policy says which policies judge. A bundle that a person applied overrides the preset, and a directory
// comes into force each time its content changes.
type Policy struct {
	Preset string `key:"preset"`
	Dir    string `key:"dir"`
}

// Ours says why a file or directory may have been written by somebody other than
// us and root; nil when it cannot have been.
func Ours(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return withoutPath(err)
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return errors.New("is no file and no directory of its own")
	}
	if why := writableByOthers(info); why != "" {
		return unsafeError(why)
	}
	return nil
}
