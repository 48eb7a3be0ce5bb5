package main

import (
	"os"
	"path"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// stage mounts an overlay over the workspace, and another over the repository beside it. Their own files stay unchanged
// below; what the room writes goes to the stages.
func (b *builder) stage() failure {
	shared := b.extra.take(cell.ExtraWorkspace)
	if b.room.Stage == "" && shared == nil {
		return failure{}
	}
	var err error
	if shared != nil { // made in another room, and mounted in none
		if b.lower, err = openDirectory(b.room.Workspace); err == nil {
			err = attach(int(shared.Fd()), b.lower)
		}
		_ = shared.Close()
	} else {
		b.lower, err = stageOver(b.room.Workspace, b.room.Stage)
	}
	if err == nil {
		err = b.copy()
	}
	if err != nil || b.room.Repository == "" {
		return failed(cell.StepStage, b.room.Stage, err)
	}
	repository, err := stageOver(b.room.Repository, b.room.RepositoryStage)
	if repository >= 0 {
		_ = unix.Close(repository)
	}
	return failed(cell.StepStage, b.room.RepositoryStage, err)
}

// stageOver mounts an overlay over a directory. It returns the directory below, with an error too where it is open.
func stageOver(dir, stage string) (lower int, err error) {
	if lower, err = openDirectory(dir); err != nil {
		return -1, err
	}
	tree, err := overlay(stage, lower)
	if err != nil {
		return lower, err
	}
	err = attach(tree, lower)
	_ = unix.Close(tree)
	return lower, err
}

// copy makes further mounts of the workspace on its stage, before anything is mounted in it: only in the namespace that
// it is mounted in can that be done.
func (b *builder) copy() error {
	if b.room.Copies == 0 {
		return nil
	}
	top, err := openDirectory(b.room.Workspace)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(top) }()
	for range b.room.Copies {
		tree, err := clone(top, 0)
		if err != nil {
			return err
		}
		b.copies = append(b.copies, os.NewFile(uintptr(tree), cell.ExtraWorkspace))
	}
	return nil
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
// crash of the machine, so nothing is flushed for it. The directory below is named as the current one: its path could hold
// a character that the kernel reads as the end of a layer, and the room's /proc does not know this process. The stage's
// path is the daemon's own, through which nobody else has put a link.
func overlay(stage string, lower int) (tree int, err error) {
	for _, name := range []string{cell.StageUpper, cell.StageWork} {
		fd, err := openDirectory(path.Join(stage, name)) // no link is in its place
		if err != nil {
			return -1, err
		}
		_ = unix.Close(fd)
	}
	if err := unix.Fchdir(lower); err != nil { // of the maker's thread alone
		return -1, err
	}
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(fs) }()
	for _, layer := range [][2]string{
		{"lowerdir", "."}, {"upperdir", path.Join(stage, cell.StageUpper)}, {"workdir", path.Join(stage, cell.StageWork)},
	} {
		if err := unix.FsconfigSetString(fs, layer[0], layer[1]); err != nil {
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
