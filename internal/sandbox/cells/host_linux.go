package cells

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/sandbox/refusal"
)

// Host holds facts about the machine, found out once.
type Host struct {
	ABI  int    // Landlock's
	Proc string // path of /proc
	arch *arch.Info
}

// lookAt finds out what the kernel can do. A refusal is the whole tier's.
func lookAt(tier palyra.Tier) (Host, *palyra.Error) {
	h := Host{Proc: "/proc"}
	var err error
	if h.ABI, err = landlockABI(); err != nil {
		return h, refusal.Unsupported("this kernel has no Landlock").
			WithRemedy("use Linux 5.13 or newer with landlock in the lsm= list of the kernel's command line").WithCause(err)
	}
	if h.arch, err = architecture(runtime.GOARCH); err != nil {
		return h, refusal.Unsupported("tier %s knows no system calls of %s", tier, runtime.GOARCH).
			WithRemedy("use an amd64 or arm64 machine").WithCause(err)
	}
	if err := seccompFilters(); err != nil {
		return h, refusal.Unsupported("this kernel has no seccomp filters").WithRemedy("use a kernel with CONFIG_SECCOMP_FILTER").WithCause(err)
	}
	return h, nil
}

// architecture returns the system calls of the two architectures that the lists were written for;
// others have calls that nobody has reviewed.
func architecture(goarch string) (*arch.Info, error) {
	switch goarch {
	case "amd64":
		return arch.X86_64, nil
	case "arm64":
		return arch.AARCH64, nil
	}
	return nil, fmt.Errorf("cells: no filter for %s", goarch)
}

func landlockABI() (int, error) {
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, fmt.Errorf("cells: landlock: %w", errno)
	}
	if n < 1 {
		return 0, errors.New("cells: landlock: no ABI")
	}
	return int(n), nil
}

// seccompFilters tries to install an impossible filter: a kernel with seccomp fails to read it, one
// without does not know the call.
func seccompFilters() error {
	const modeFilter = 1 // SECCOMP_SET_MODE_FILTER
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, modeFilter, 0, 0)
	if errno == unix.EFAULT {
		return nil
	}
	return fmt.Errorf("cells: seccomp: %w", errno)
}
