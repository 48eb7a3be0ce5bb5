package main

import (
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// stage mounts an overlay over the workspace. The workspace's own files stay unchanged below it;
// what the room writes goes to the stage. The layers are named by descriptor: a path could hold a
// character that the kernel reads as the end of an option.
func (b *builder) stage() failure {
	if b.room.Stage == "" {
		return failure{}
	}
	fail := func(err error) failure { return failed(cell.StepStage, b.room.Stage, err) }
	lower, err := openDirectory(b.room.Workspace)
	if err != nil {
		return fail(err)
	}
	b.lower = lower
	tree, err := overlay(b.room.Stage, lower)
	if err != nil {
		return fail(err)
	}
	err = attach(tree, lower)
	_ = unix.Close(tree)
	return fail(err)
}

// unstage closes the workspace below the stage, once nothing has to be compared with it any more.
func (b *builder) unstage() {
	if b.lower >= 0 {
		_ = unix.Close(b.lower)
		b.lower = -1
	}
}

func openDirectory(name string) (int, error) {
	return unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
}

// overlay makes an overlay that is mounted nowhere yet. Nobody needs the content of a stage after a
// crash of the machine, so nothing is flushed for it.
func overlay(stage string, lower int) (tree int, err error) {
	upper, err := openDirectory(path.Join(stage, cell.StageUpper))
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(upper) }()
	work, err := openDirectory(path.Join(stage, cell.StageWork))
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(work) }()
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(fs) }()
	for _, layer := range []struct {
		name string
		fd   int
	}{{"lowerdir", lower}, {"upperdir", upper}, {"workdir", work}} {
		if err := unix.FsconfigSetString(fs, layer.name, "/proc/self/fd/"+strconv.Itoa(layer.fd)); err != nil {
			return -1, err
		}
	}
	for _, flag := range []string{"userxattr", "volatile"} {
		if err := unix.FsconfigSetFlag(fs, flag); err != nil {
			return -1, err
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, err
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}
