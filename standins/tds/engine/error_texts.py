"""What SQL Server says: severity and text of each error by its number."""

# fmt: off
TEXTS: dict[int, tuple[int, str]] = {
    102: (15, "Incorrect syntax near '{}'."),
    103: (15, "The identifier that starts with '{}' is too long. Maximum length is 128."),
    104: (15, "ORDER BY items must appear in the select list if the statement contains a "
          "UNION, INTERSECT or EXCEPT operator."),
    105: (15, "Unclosed quotation mark after the character string '{}'."),
    109: (15, "There are more columns in the INSERT statement than values specified in the "
          "VALUES clause. The number of values in the VALUES clause must match the number of "
          "columns specified in the INSERT statement."),
    110: (15, "There are fewer columns in the INSERT statement than values specified in the "
          "VALUES clause. The number of values in the VALUES clause must match the number of "
          "columns specified in the INSERT statement."),
    120: (15, "The select list for the INSERT statement contains fewer items than the insert "
          "list. The number of SELECT values must match the number of INSERT columns."),
    121: (15, "The select list for the INSERT statement contains more items than the insert "
          "list. The number of SELECT values must match the number of INSERT columns."),
    134: (15, "The variable name '{}' has already been declared. Variable names must be "
          "unique within a query batch or stored procedure."),
    137: (15, "Must declare the scalar variable \"{}\"."),
    156: (15, "Incorrect syntax near the keyword '{}'."),
    201: (16, "Procedure or function '{}' expects parameter '{}', which was not supplied."),
    205: (16, "All queries combined using a UNION, INTERSECT or EXCEPT operator must have an "
          "equal number of expressions in their target lists."),
    206: (16, "Operand type clash: {} is incompatible with {}"),
    207: (16, "Invalid column name '{}'."),
    208: (16, "Invalid object name '{}'."),
    209: (16, "Ambiguous column name '{}'."),
    213: (16, "Column name or number of supplied values does not match table definition."),
    220: (16, "Arithmetic overflow error for data type {}, value = {}."),
    229: (14, "The {} permission was denied on the object '{}', database '{}', schema '{}'."),
    232: (16, "Arithmetic overflow error for type {}, value = {}."),
    241: (16, "Conversion failed when converting date and/or time from character string."),
    242: (16, "The conversion of a {} data type to a {} data type resulted in an out-of-range "
          "value."),
    244: (16, "The conversion of the {} value '{}' overflowed an {} column. Use a larger "
          "integer column."),
    245: (16, "Conversion failed when converting the {} value '{}' to data type {}."),
    248: (16, "The conversion of the {} value '{}' overflowed an int column."),
    257: (16, "Implicit conversion from data type {} to {} is not allowed. Use the CONVERT "
          "function to run this query."),
    262: (14, "{} permission denied in database '{}'."),
    264: (16, "The column name '{}' is specified more than once in the SET clause or column "
          "list of an INSERT. A column cannot be assigned more than one value in the same "
          "clause."),
    266: (16, "Transaction count after EXECUTE indicates a mismatching number of BEGIN and "
          "COMMIT statements. Previous count = {}, current count = {}."),
    271: (16, "The column \"{}\" cannot be modified because it is either a computed column or "
          "is the result of a UNION operator."),
    296: (16, "The conversion of char data type to smalldatetime data type resulted in an "
          "out-of-range smalldatetime value."),
    306: (16, "The text, ntext, and image data types cannot be compared or sorted, except "
          "when using IS NULL or LIKE operator."),
    343: (15, "Unknown object type '{}' used in a CREATE, DROP, or ALTER statement."),
    468: (16, "Cannot resolve the collation conflict between \"{}\" and \"{}\" in the {} "
          "operation."),
    512: (16, "Subquery returned more than 1 value. This is not permitted when the subquery "
          "follows =, !=, <, <= , >, >= or when the subquery is used as an expression."),
    515: (16, "Cannot insert the value NULL into column '{}', table '{}'; column does not "
          "allow nulls. {} fails."),
    517: (16, "Adding a value to a '{}' column caused an overflow."),
    535: (16, "The {} function resulted in an overflow. The number of dateparts separating "
          "two date/time instances is too large. Try to use {} with a less precise datepart."),
    544: (16, "Cannot insert explicit value for identity column in table '{}' when "
          "IDENTITY_INSERT is set to OFF."),
    545: (16, "Explicit value must be specified for identity column in table '{}' either when "
          "IDENTITY_INSERT is set to ON or when a replication user is inserting into a NOT "
          "FOR REPLICATION identity column."),
    547: (16, "The {} statement conflicted with the {} constraint \"{}\". The conflict "
          "occurred in database \"{}\", table \"{}\"{}."),
    628: (16, "Cannot issue SAVE TRANSACTION when there is no active transaction."),
    911: (16, "Database '{}' does not exist. Make sure that the name is entered correctly."),
    1033: (15, "The ORDER BY clause is invalid in views, inline functions, derived tables, "
          "subqueries, and common table expressions, unless TOP, OFFSET or FOR XML is also "
          "specified."),
    1088: (16, "Cannot find the object \"{}\" because it does not exist or you do not have "
          "permissions."),
    1205: (13, "Transaction (Process ID {}) was deadlocked on lock resources with another "
          "process and has been chosen as the deadlock victim. Rerun the transaction."),
    1222: (16, "Lock request time out period exceeded."),
    1505: (16, "The CREATE UNIQUE INDEX statement terminated because a duplicate key was "
          "found for the object name '{}' and the index name '{}'. The duplicate key value is "
          "({})."),
    1750: (16, "Could not create constraint or index. See previous errors."),
    1769: (16, "Foreign key '{}' references invalid column '{}' in referencing table '{}'."),
    1776: (16, "There are no primary or candidate keys in the referenced table '{}' that "
          "match the referencing column list in the foreign key '{}'."),
    1778: (16, "Column '{}' is not the same data type as referencing column '{}' in foreign "
          "key '{}'."),
    1779: (16, "Table '{}' already has a primary key defined on it."),
    1781: (16, "Column already has a DEFAULT bound to it."),
    1801: (16, "Database '{}' already exists. Choose a different database name."),
    1902: (16, "Cannot create more than one clustered index on {} '{}'. Drop the existing "
          "clustered index '{}' before creating another."),
    1911: (16, "Column name '{}' does not exist in the target table or view."),
    1913: (16, "The operation failed because an index or statistics with name '{}' already "
          "exists on table '{}'."),
    1919: (16, "Column '{}' in table '{}' is of a type that is invalid for use as a key column in "
          "an index."),
    1934: (16, "{} failed because the following SET options have incorrect settings: '{}'."),
    2601: (14, "Cannot insert duplicate key row in object '{}' with unique index '{}'. The "
          "duplicate key value is ({})."),
    2627: (14, "Violation of {} constraint '{}'. Cannot insert duplicate key in object '{}'. "
          "The duplicate key value is ({})."),
    2628: (16, "String or binary data would be truncated in table '{}', column '{}'. "
          "Truncated value: '{}'."),
    2705: (16, "Column names in each table must be unique. Column name '{}' in table '{}' is "
          "specified more than once."),
    2714: (16, "There is already an object named '{}' in the database."),
    2715: (16, "Column, parameter, or variable #{}: Cannot find data type {}."),
    2716: (16, "Column, parameter, or variable #{}: Cannot specify a column width on data "
          "type {}."),
    2744: (16, "Multiple identity columns specified for table '{}'. Only one identity column "
          "per table is allowed."),
    2749: (16, "Identity column '{}' must be of data type int, bigint, smallint, tinyint, or "
          "decimal or numeric with a scale of 0, unencrypted, and constrained to be "
          "nonnullable."),
    2750: (16, "Column or parameter #{}: Specified column precision {} is greater than the "
          "maximum precision of 38."),
    2751: (16, "Column or parameter #{}: Specified column scale {} is greater than the "
          "specified precision of {}."),
    2759: (16, "CREATE SCHEMA failed due to previous errors."),
    2760: (16, "The specified schema name \"{}\" either does not exist or you do not have "
          "permission to use it."),
    2812: (16, "Could not find stored procedure '{}'."),
    3601: (16, "The index value {} is not unique."),
    3701: (11, "Cannot {} the {} '{}', because it does not exist or you do not have "
          "permission."),
    3702: (16, "Cannot drop database \"{}\" because it is currently in use."),
    3705: (16, "Cannot use DROP {} with '{}' because '{}' is a {}. Use DROP {}."),
    3726: (16, "Could not drop object '{}' because it is referenced by a FOREIGN KEY "
          "constraint."),
    3728: (16, "'{}' is not a constraint."),
    3729: (16, "Cannot {} '{}' because it is being referenced by object '{}'."),
    3902: (16, "The COMMIT TRANSACTION request has no corresponding BEGIN TRANSACTION."),
    3903: (16, "The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION."),
    3908: (16, "Could not run BEGIN TRANSACTION in database '{}' because the database is in "
          "emergency mode or is damaged and must be restarted."),
    3930: (16, "The current transaction cannot be committed and cannot support operations "
          "that write to the log file. Roll back the transaction."),
    3931: (16, "The current transaction cannot be committed and cannot be rolled back to a "
          "savepoint. Roll back the entire transaction."),
    3951: (16, "Transaction failed in database '{}' because the statement was run under "
          "snapshot isolation but the transaction did not start in snapshot isolation. You "
          "cannot change the isolation level of the transaction to snapshot after the "
          "transaction has started unless the transaction was originally started under "
          "snapshot isolation level."),
    3952: (16, "Snapshot isolation transaction failed accessing database '{}' because "
          "snapshot isolation is not allowed in this database. Use ALTER DATABASE to allow "
          "snapshot isolation."),
    3960: (16, "Snapshot isolation transaction aborted due to update conflict. You cannot use "
          "snapshot isolation to access table '{}' directly or indirectly in database '{}' to "
          "update, delete, or insert the row that has been modified or deleted by another "
          "transaction. Retry the transaction or change the isolation level for the "
          "update/delete statement."),
    3961: (16, "Snapshot isolation transaction failed in database '{}' because the object "
          "accessed by the statement has been modified by a DDL statement in another "
          "concurrent transaction since the start of this transaction."),
    3998: (16, "Uncommittable transaction is detected at the end of the batch. The "
          "transaction is rolled back."),
    4060: (11, "Cannot open database \"{}\" requested by the login. The login failed."),
    4104: (16, "The multi-part identifier \"{}\" could not be bound."),
    4121: (16, "Cannot find either column \"{}\" or the user-defined function or aggregate "
          "\"{}\", or the name is ambiguous."),
    4305: (16, "{}"),
    4405: (16, "View or function '{}' is not updatable because the modification affects "
          "multiple base tables."),
    4406: (16, "Update or insert of view or function '{}' failed because it contains a "
          "derived or constant field."),
    4506: (16, "Column names in each view or function must be unique. Column name '{}' in "
          "view or function '{}' is specified more than once."),
    4511: (16, "Create View or Function failed because no column name was specified for "
          "column {}."),
    4701: (16, "Cannot find the object \"{}\" because it does not exist or you do not have "
          "permissions."),
    4708: (16, "Could not truncate object '{}' because it is not a table."),
    4712: (16, "Cannot truncate table '{}' because it is being referenced by a FOREIGN KEY "
          "constraint."),
    4861: (16, "Cannot bulk load because the file could not be opened."),
    4901: (16, "ALTER TABLE only allows columns to be added that can contain nulls, or have a "
          "DEFAULT definition specified, or the column being added is an identity or "
          "timestamp column, or alternatively if none of the previous conditions are "
          "satisfied the table must be empty to allow addition of this column. Column '{}' "
          "cannot be added to non-empty table '{}' because it does not satisfy these "
          "conditions."),
    4902: (16, "Cannot find the object \"{}\" because it does not exist or you do not have "
          "permissions."),
    4922: (16, "{} {} failed because one or more objects access this column."),
    4924: (16, "{} failed because column '{}' does not exist in table '{}'."),
    5074: (16, "The {} '{}' is dependent on column '{}'."),
    5701: (10, "Changed database context to '{}'."),
    6401: (16, "Cannot roll back {}. No transaction or savepoint of that name was found."),
    7202: (11, "Could not find server '{}' in sys.servers."),
    8003: (16, "The incoming request has too many parameters. The server supports a maximum "
          "of 2100 parameters. Reduce the number of parameters and resend the request."),
    8101: (16, "An explicit value for the identity column in table '{}' can only be specified "
          "when a column list is used and IDENTITY_INSERT is ON."),
    8102: (16, "Cannot update identity column '{}'."),
    8106: (16, "Table '{}' does not have the identity property. Cannot perform SET operation."),
    8107: (16, "IDENTITY_INSERT is already ON for table '{}'. Cannot perform SET operation "
          "for table '{}'."),
    8111: (16, "Cannot define PRIMARY KEY constraint on nullable column in table '{}'."),
    8114: (16, "Error converting data type {} to {}."),
    8115: (16, "Arithmetic overflow error converting {} to data type {}."),
    8117: (16, "Operand data type {} is invalid for {} operator."),
    8120: (16, "Column '{}' is invalid in the select list because it is not contained in "
          "either an aggregate function or the GROUP BY clause."),
    8134: (16, "Divide by zero error encountered."),
    8144: (16, "Procedure or function {} has too many arguments specified."),
    8145: (16, "{} is not a parameter for procedure {}."),
    8146: (16, "Procedure {} has no parameters and arguments were supplied."),
    8152: (16, "String or binary data would be truncated."),
    8155: (16, "No column name was specified for column {} of '{}'."),
    8156: (16, "The column '{}' was specified multiple times for '{}'."),
    8169: (16, "Conversion failed when converting from a character string to uniqueidentifier."),
    8178: (16, "The parameterized query '{}' expects the parameter '{}', which was not "
          "supplied."),
    8672: (16, "The MERGE statement attempted to UPDATE or DELETE the same row more than "
          "once. This happens when a target row matches more than one source row. A MERGE "
          "statement cannot UPDATE/DELETE the same row of the target table multiple times. "
          "Refine the ON clause to ensure a target row matches at most one source row, or use "
          "the GROUP BY clause to group the source rows."),
    10713: (15, "A MERGE statement must be terminated by a semi-colon (;)."),
    10738: (15, "The number of row value expressions in the INSERT statement exceeds the "
          "maximum allowed number of 1000 row values."),
    11503: (16, "The parameter type cannot be deduced because a single expression or "
          "statement contains two or more untyped parameters: '{}'."),
    15023: (16, "User, group, or role '{}' already exists in the current database."),
    15135: (16, "Object is invalid. Extended properties are not permitted on '{}', or the object "
          "does not exist."),
    15151: (16, "Cannot {} the {} '{}', because it does not exist or you do not have "
          "permission."),
    15225: (11, "No item by the name of '{}' could be found in the current database '{}', "
          "given that @itemtype was input as '{}'."),
    15233: (16, "Property cannot be added. Property '{}' already exists for '{}'."),
    15248: (11, "Either the parameter @objname is ambiguous or the claimed @objtype ({}) is "
          "wrong."),
    15335: (11, "Error: The new name '{}' is already in use as a {} name and would cause a "
          "duplicate that is not permitted."),
    15336: (16, "Object '{}' cannot be renamed because the object participates in enforced "
          "dependencies."),
    15530: (16, "The object with name \"{}\" already exists."),
    18456: (14, "Login failed for user '{}'."),
    40000: (16, "the stand-in does not know: {}"),
}
# fmt: on
