-- Pruning leaves no mark: the first change that is left passes for the one that is gone.
-- procedure: fl_prune_save
-- instead of:
SET s.pruned = GREATEST(s.pruned, c.version)
-- stands:
SET s.pruned = s.pruned
