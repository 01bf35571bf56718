package daemon

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Settle gives this process what a daemon that serves file systems needs, whatever it inherited: the root as working
// directory, a tight umask, many descriptors, and no place in front of the OOM killer's gun: without it, every program
// on its mounts would get errors. What is not permitted is left as it is.
func Settle() error {
	if err := os.Chdir("/"); err != nil {
		return err
	}
	unix.Umask(0o077)
	for _, score := range []int{-500, 0} {
		if os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(score)), 0o644) == nil {
			break
		}
	}
	var lim unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &lim) == nil && lim.Cur < lim.Max {
		lim.Cur = lim.Max
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &lim)
	}
	return nil
}
