-- The least the library needs, for a role that does not own our tables:
--     psql -v role=cms -f postgres_service_role.sql
-- Routines may be executed by everybody unless that was taken away; the role runs `fieldlease migrate` never.
GRANT SELECT ON fl_migration TO :"role";
GRANT SELECT, INSERT, UPDATE ON fl_entity, fl_scope, fl_registry, fl_operation TO :"role";
GRANT SELECT, INSERT, UPDATE, DELETE ON fl_key TO :"role";
-- For leases in rows of this database; a role that keeps its leases elsewhere needs none of it.
GRANT SELECT, INSERT, UPDATE, DELETE ON fl_lease, fl_lease_notice TO :"role";
