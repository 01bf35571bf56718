package versions

import "wsfs/store"

// TagOp is the op that makes name a tag of ws for p; one of that name is moved.
func TagOp(ws *store.Workspace, name string, p Place, at int64, who store.Attribution) *store.Op {
	return tagOp(ws, store.TagChange{Tag: store.Tag{Workspace: ws.ID, Name: name, Timeline: p.Timeline, Seq: p.Seq}}, at, who)
}

// UntagOp is the op that removes a tag. What it named stays, until it is collected.
func UntagOp(ws *store.Workspace, name string, at int64, who store.Attribution) *store.Op {
	return tagOp(ws, store.TagChange{Tag: store.Tag{Workspace: ws.ID, Name: name}, Remove: true}, at, who)
}

func tagOp(ws *store.Workspace, c store.TagChange, at int64, who store.Attribution) *store.Op {
	return &store.Op{Kind: store.OpWorkspace, Workspace: ws.ID, At: at, Who: who, Tags: []store.TagChange{c}}
}
