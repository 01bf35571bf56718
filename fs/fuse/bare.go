package fuse

import (
	"context"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
)

// NewRaw mounts a file system that is none of ours through our transport: scripts/floor measures by one what the kernel's
// round trips cost without the work that a workspace has with them.
func NewRaw(ctx context.Context, raw gofuse.RawFileSystem, point string, o Options) (*Mount, error) {
	return mountRaw(ctx, raw, point, o.withDefaults(), nil)
}
