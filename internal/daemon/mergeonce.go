package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// oncePause is how long MergeOnce waits before it asks again.
const oncePause = 50 * time.Millisecond

// MergeOnce has the running daemon of a store merge the whole of a fork, once, also if it dies meanwhile and another one comes within
// patience: that is asked what there is to merge still. What was merged by one that could not say so any more is a MergeReply without Seq and
// counts. The error says so if no daemon could tell what became of it.
func MergeOnce(ctx context.Context, storeDir string, req MergeRequest, patience time.Duration) (MergeReply, error) {
	asked := false
	for deadline := time.Now().Add(patience); ; time.Sleep(oncePause) {
		out, err := mergeOnce(ctx, storeDir, req, asked)
		gone := errors.As(err, new(*GoneError))
		switch {
		case err == nil || !gone && !errors.Is(err, errNoDaemon):
			return out, err
		case ctx.Err() != nil || time.Now().After(deadline):
			if asked {
				err = fmt.Errorf("whether it was merged is not known, as the daemon ended meanwhile; merging it again is no harm: %w", err)
			}
			return MergeReply{}, err
		case gone && !asked:
			asked, deadline = true, time.Now().Add(patience)
		}
	}
}

// mergeOnce asks once; asked: it was asked for before.
func mergeOnce(ctx context.Context, storeDir string, req MergeRequest, asked bool) (MergeReply, error) {
	c, err := Dial(storeDir)
	switch {
	case err != nil:
		return MergeReply{}, err
	case c == nil:
		return MergeReply{}, errNoDaemon
	}
	if asked {
		what := req
		what.DryRun, what.Serializable = true, false // what was read is known no more
		if _, err := c.Merge(ctx, what); ExitCode(err) == ExitNothing {
			return MergeReply{Workspace: req.Into, From: req.From}, nil
		} else if err != nil {
			return MergeReply{}, err
		}
	}
	return c.Merge(ctx, req)
}
