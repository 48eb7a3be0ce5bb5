//go:build unix

package execute_test

import (
	"testing"

	"palyra/internal/cli"
	"palyra/internal/cli/stagetest"
)

// TestMain runs the tests with palyra in PATH, played by the test binary.
func TestMain(m *testing.M) { stagetest.Run(m, cli.Main) }
