"""The relations of PostgreSQL's catalog that clients read: their columns, as in version 15."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa

#: The columns of each relation. A suffix marks the types that are not text: `#` a number, `?` a Boolean, `[]` a list of
#: texts, `#[]` a list of numbers.
PG_CATALOG: Final = {
    "pg_am": "oid# amname amhandler amtype",
    "pg_attrdef": "oid# adrelid# adnum# adbin",
    "pg_attribute": "attrelid# attname atttypid# attstattarget# attlen# attnum# attndims# attcacheoff# atttypmod#"
    " attbyval? attalign attstorage attcompression attnotnull? atthasdef? atthasmissing? attidentity attgenerated"
    " attisdropped? attislocal? attinhcount# attcollation# attacl[] attoptions[] attfdwoptions[] attmissingval",
    "pg_auth_members": "roleid# member# grantor# admin_option?",
    "pg_cast": "oid# castsource# casttarget# castfunc# castcontext castmethod",
    "pg_class": "oid# relname relnamespace# reltype# reloftype# relowner# relam# relfilenode# reltablespace# relpages#"
    " reltuples# relallvisible# reltoastrelid# relhasindex? relisshared? relpersistence relkind relnatts# relchecks#"
    " relhasrules? relhastriggers? relhassubclass? relrowsecurity? relforcerowsecurity? relispopulated? relreplident"
    " relispartition? relrewrite# relfrozenxid# relminmxid# relacl[] reloptions[] relpartbound",
    "pg_collation": "oid# collname collnamespace# collowner# collprovider collisdeterministic? collencoding#"
    " collcollate collctype colliculocale collversion",
    "pg_constraint": "oid# conname connamespace# contype condeferrable? condeferred? convalidated? conrelid# contypid#"
    " conindid# conparentid# confrelid# confupdtype confdeltype confmatchtype conislocal? coninhcount# connoinherit?"
    " conkey#[] confkey#[] conpfeqop#[] conppeqop#[] conffeqop#[] confdelsetcols#[] conexclop#[] conbin",
    "pg_conversion": "oid# conname connamespace# conowner# conforencoding# contoencoding# conproc condefault?",
    "pg_database": "oid# datname datdba# encoding# datlocprovider datistemplate? datallowconn? datconnlimit#"
    " datfrozenxid# datminmxid# dattablespace# datcollate datctype daticulocale datcollversion datacl[]",
    "pg_db_role_setting": "setdatabase# setrole# setconfig[]",
    "pg_default_acl": "oid# defaclrole# defaclnamespace# defaclobjtype defaclacl[]",
    "pg_depend": "classid# objid# objsubid# refclassid# refobjid# refobjsubid# deptype",
    "pg_description": "objoid# classoid# objsubid# description",
    "pg_enum": "oid# enumtypid# enumsortorder# enumlabel",
    "pg_event_trigger": "oid# evtname evtevent evtowner# evtfoid# evtenabled evttags[]",
    "pg_extension": "oid# extname extowner# extnamespace# extrelocatable? extversion extconfig#[] extcondition[]",
    "pg_foreign_data_wrapper": "oid# fdwname fdwowner# fdwhandler# fdwvalidator# fdwacl[] fdwoptions[]",
    "pg_foreign_server": "oid# srvname srvowner# srvfdw# srvtype srvversion srvacl[] srvoptions[]",
    "pg_foreign_table": "ftrelid# ftserver# ftoptions[]",
    "pg_get_keywords": "word catcode barelabel? catdesc baredesc",
    "pg_index": "indexrelid# indrelid# indnatts# indnkeyatts# indisunique? indnullsnotdistinct? indisprimary?"
    " indisexclusion? indimmediate? indisclustered? indisvalid? indcheckxmin? indisready? indislive? indisreplident?"
    " indkey#[] indcollation#[] indclass#[] indoption#[] indexprs indpred",
    "pg_indexes": "schemaname tablename indexname tablespace indexdef",
    "pg_inherits": "inhrelid# inhparent# inhseqno# inhdetachpending?",
    "pg_language": "oid# lanname lanowner# lanispl? lanpltrusted? lanplcallfoid# laninline# lanvalidator# lanacl[]",
    "pg_largeobject_metadata": "oid# lomowner# lomacl[]",
    "pg_matviews": "schemaname matviewname matviewowner tablespace hasindexes? ispopulated? definition",
    "pg_namespace": "oid# nspname nspowner# nspacl[]",
    "pg_opclass": "oid# opcmethod# opcname opcnamespace# opcowner# opcfamily# opcintype# opcdefault? opckeytype#",
    "pg_operator": "oid# oprname oprnamespace# oprowner# oprkind oprcanmerge? oprcanhash? oprleft# oprright# oprresult#"
    " oprcom# oprnegate# oprcode oprrest oprjoin",
    "pg_opfamily": "oid# opfmethod# opfname opfnamespace# opfowner#",
    "pg_partitioned_table": "partrelid# partstrat partnatts# partdefid# partattrs#[] partclass#[] partcollation#[]"
    " partexprs",
    "pg_policy": "oid# polname polrelid# polcmd polpermissive? polroles#[] polqual polwithcheck",
    "pg_proc": "oid# proname pronamespace# proowner# prolang# procost# prorows# provariadic# prosupport prokind"
    " prosecdef? proleakproof? proisstrict? proretset? provolatile proparallel pronargs# pronargdefaults# prorettype#"
    " proargtypes#[] proallargtypes#[] proargmodes[] proargnames[] proargdefaults protrftypes#[] prosrc probin"
    " prosqlbody proconfig[] proacl[]",
    "pg_publication": "oid# pubname pubowner# puballtables? pubinsert? pubupdate? pubdelete? pubtruncate? pubviaroot?",
    "pg_publication_namespace": "oid# pnpubid# pnnspid#",
    "pg_publication_rel": "oid# prpubid# prrelid# prqual prattrs#[]",
    "pg_range": "rngtypid# rngsubtype# rngmultitypid# rngcollation# rngsubopc# rngcanonical rngsubdiff",
    "pg_rewrite": "oid# rulename ev_class# ev_type ev_enabled is_instead? ev_qual ev_action",
    "pg_roles": "rolname rolsuper? rolinherit? rolcreaterole? rolcreatedb? rolcanlogin? rolreplication? rolconnlimit#"
    " rolpassword rolvaliduntil rolbypassrls? rolconfig[] oid#",
    "pg_sequence": "seqrelid# seqtypid# seqstart# seqincrement# seqmax# seqmin# seqcache# seqcycle?",
    "pg_sequences": "schemaname sequencename sequenceowner data_type start_value# min_value# max_value# increment_by#"
    " cycle? cache_size# last_value#",
    "pg_settings": "name setting unit category short_desc extra_desc context vartype source min_val max_val enumvals[]"
    " boot_val reset_val sourcefile sourceline# pending_restart?",
    "pg_shdescription": "objoid# classoid# description",
    "pg_statistic_ext": "oid# stxrelid# stxname stxnamespace# stxowner# stxstattarget# stxkeys#[] stxkind[] stxexprs",
    "pg_subscription": "oid# subdbid# subname subowner# subenabled? subconninfo subslotname subpublications[]",
    "pg_tables": "schemaname tablename tableowner tablespace hasindexes? hasrules? hastriggers? rowsecurity?",
    "pg_tablespace": "oid# spcname spcowner# spcacl[] spcoptions[]",
    "pg_trigger": "oid# tgrelid# tgparentid# tgname tgfoid# tgtype# tgenabled tgisinternal? tgconstrrelid#"
    " tgconstrindid# tgconstraint# tgdeferrable? tginitdeferred? tgnargs# tgattr#[] tgargs tgqual"
    " tgoldtable tgnewtable",
    "pg_ts_config": "oid# cfgname cfgnamespace# cfgowner# cfgparser#",
    "pg_ts_dict": "oid# dictname dictnamespace# dictowner# dicttemplate# dictinitoption",
    "pg_ts_parser": "oid# prsname prsnamespace#",
    "pg_ts_template": "oid# tmplname tmplnamespace#",
    "pg_type": "oid# typname typnamespace# typowner# typlen# typbyval? typtype typcategory typispreferred?"
    " typisdefined? typdelim typrelid# typsubscript typelem# typarray# typinput typoutput typreceive typsend"
    " typmodin typmodout typanalyze typalign typstorage typnotnull? typbasetype# typtypmod# typndims# typcollation#"
    " typdefaultbin"
    " typdefault typacl[]",
    "pg_user": "usename usesysid# usecreatedb? usesuper? userepl? usebypassrls? passwd valuntil useconfig[]",
    "pg_user_mappings": "umid# srvid# srvname umuser# usename umoptions[]",
    "pg_views": "schemaname viewname viewowner definition",
}
INFORMATION_SCHEMA: Final = {
    "check_constraints": "constraint_catalog constraint_schema constraint_name check_clause",
    "columns": "table_catalog table_schema table_name column_name ordinal_position# column_default is_nullable"
    " data_type character_maximum_length# character_octet_length# numeric_precision#"
    " numeric_precision_radix# numeric_scale# datetime_precision# interval_type interval_precision#"
    " collation_catalog collation_schema collation_name"
    " domain_catalog domain_schema domain_name udt_catalog udt_schema udt_name dtd_identifier is_identity"
    " identity_generation identity_start identity_increment identity_maximum identity_minimum identity_cycle"
    " is_generated generation_expression is_updatable",
    "constraint_column_usage": "table_catalog table_schema table_name column_name constraint_catalog constraint_schema"
    " constraint_name",
    "domains": "domain_catalog domain_schema domain_name data_type",
    "enabled_roles": "role_name",
    "key_column_usage": "constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name"
    " column_name ordinal_position# position_in_unique_constraint#",
    "parameters": "specific_catalog specific_schema specific_name ordinal_position# parameter_mode parameter_name"
    " data_type",
    "referential_constraints": "constraint_catalog constraint_schema constraint_name unique_constraint_catalog"
    " unique_constraint_schema unique_constraint_name match_option update_rule delete_rule",
    "routines": "specific_catalog specific_schema specific_name routine_catalog routine_schema routine_name"
    " routine_type data_type routine_definition external_language",
    "schemata": "catalog_name schema_name schema_owner default_character_set_name sql_path",
    "sequences": "sequence_catalog sequence_schema sequence_name data_type start_value minimum_value maximum_value"
    " increment cycle_option",
    "table_constraints": "constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name"
    " constraint_type is_deferrable initially_deferred enforced nulls_distinct",
    "table_privileges": "grantor grantee table_catalog table_schema table_name privilege_type is_grantable"
    " with_hierarchy",
    "tables": "table_catalog table_schema table_name table_type is_insertable_into is_typed commit_action",
    "triggers": "trigger_catalog trigger_schema trigger_name event_manipulation event_object_schema event_object_table"
    " action_statement action_timing",
    "views": "table_catalog table_schema table_name view_definition check_option is_updatable is_insertable_into",
}
_TYPES: Final = {
    "": pa.string(), "#": pa.int64(), "?": pa.bool_(), "[]": pa.list_(pa.string()), "#[]": pa.list_(pa.int64()),
}  # fmt: skip
#: The values of columns that a row does not name, by suffix.
_DEFAULTS: Final = {"#": 0, "?": False}


def relation(columns: str, rows: Iterable[Mapping[str, object]]) -> pa.Table:
    """The rows as a table with the columns. Of what a row does not name, numbers are 0, Booleans FALSE, others NULL.

    >>> relation("oid# spcname spcacl[]", [{"oid": 7}]).to_pylist()
    [{'oid': 7, 'spcname': None, 'spcacl': None}]
    """
    listed = list(rows)
    return pa.table({name: _column(name, suffix, listed) for name, suffix in map(_parts, columns.split())})


def _parts(column: str) -> tuple[str, str]:
    name = column.rstrip("#?[]")
    return name, column.removeprefix(name)


def _column(name: str, suffix: str, rows: list[Mapping[str, object]]) -> pa.Array[Any]:
    default = _DEFAULTS.get(suffix)
    return pa.array([row.get(name, default) for row in rows], _TYPES[suffix])
