package store

// TouchedQueries are those of diff and blame whose plans matter.
func TouchedQueries(n int) map[string]string {
	return map[string]string{
		"touched":         sqlTouched,
		"touched by":      sqlTouchedBy,
		"touched except":  sqlTouchedExcept,
		"versions before": sqlVersionsBefore, "lineage": sqlLineage,
		"command at":     sqlCommandAt,
		"commands by id": withKeys(sqlCommandsByID, n, 2), "changes at": withKeys(sqlChangesAt, n, 3),
		"processes by id": withKeys(sqlProcesses, n, 2),
	}
}
